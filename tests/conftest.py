"""What every test sees."""

from tests.reference import use_reference_hands

use_reference_hands()
