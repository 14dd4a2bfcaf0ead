"""Looking ahead: trees over tokens, lines, actions or whole answers, and the searches that grow them.

``tree`` holds the arrays, ``search`` what all searches share (expansion, values, budgets), ``attempts`` grows a tree
over attempts of any environment with any model, ``aggregate`` makes one answer of many; each search is a file.
"""
