"""What a run found, as a terminal shows it, as JSON and as JUnit XML."""
