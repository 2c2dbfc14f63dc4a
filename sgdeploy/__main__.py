"""``python -m sgdeploy``."""

import sys

from sgdeploy.cli.app import main

sys.exit(main())
