"""Teams of language agents: members over the wire, and what each part is worth."""
