"""What state the job is in and why: the case, the tables of rules, the report."""
