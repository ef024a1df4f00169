import pathlib

import pytest
from course import Course


@pytest.fixture
def course(tmp_path: pathlib.Path) -> Course:
    return Course(tmp_path)
