"""The command `transformers`, which also writes down how many tokens each step of an answer makes."""

import json
import os
from pathlib import Path

from transformers.cli.serving import utils
from transformers.cli.transformers import main


class Noting(utils.DirectStreamer):
    """Passes on what it gets."""

    def put(self, value):
        """The first call brings the prompt."""
        self._steps = [] if self._first else [*self._steps, value.numel()]
        super().put(value)

    def end(self):
        """The answer is complete."""
        super().end()
        with Path(os.environ["SPECSONAR_NOTES"]).open("a") as notes:
            notes.write(json.dumps({"steps": self._steps}) + "\n")


if __name__ == "__main__":
    utils.DirectStreamer = Noting
    main()
