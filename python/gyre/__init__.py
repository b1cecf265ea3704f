from gyre._errors import *
from gyre import _gyre
