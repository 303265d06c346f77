"""Commands: functions whose signatures are their flags. They load libraries only when they run."""
