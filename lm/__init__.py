"""Training of the two small bundled language models: `python -m lm.train --help`."""
