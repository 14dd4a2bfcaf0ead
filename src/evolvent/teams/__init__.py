"""Teams of language agents: what each part is worth, what their answers have in common, members over the wire."""
