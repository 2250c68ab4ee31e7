"""Makes this folder's ``budget_samples`` importable, whichever way pytest imports test modules."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
