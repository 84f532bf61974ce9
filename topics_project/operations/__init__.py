"""An operator's commands: prepare, back up, restore, check and uninstall. And the scheduler of the instance's tasks."""
