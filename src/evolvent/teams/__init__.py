"""Teams of language agents: what their answers have in common, and what each part of a workflow is worth."""
