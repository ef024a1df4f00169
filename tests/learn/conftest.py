import pytest

from course import Course


@pytest.fixture
def course(tmp_path):
    return Course(tmp_path)
