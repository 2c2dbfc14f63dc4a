"""From the logs of all ranks to the first cause: pure, owns no clock and opens no file."""
