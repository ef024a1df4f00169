"""A standard output that cannot be written: the program ends, says so, and has a status other than 0."""

import pathlib

import pytest
from programs import Result, command, says
from training import SMALL


@pytest.mark.parametrize("to", [">/dev/full", ">&-"])
def test_a_standard_output_that_cannot_be_written_is_an_error(tmp_path: pathlib.Path, to: str) -> None:
    def run(flags: str) -> Result:
        return command(f"""exec mpirun -np 1 sh -c 'exec "$@" {to}' sh $BIN/ddp_training {flags}""", tmp_path)

    result = run(f"{SMALL} --max-steps 3 --json --metrics m")
    assert result.status == 1
    says(result, "error: standard output cannot be written\n")
    assert (tmp_path / "m").read_text().count("\n") == 3  # no rows meant for standard output
    assert run("--help").status == 1
