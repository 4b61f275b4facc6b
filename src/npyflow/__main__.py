"""``python -m npyflow``."""

from npyflow._cli.main import main

main()
