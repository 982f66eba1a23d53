"""Console: a page that shows every program live, takes decisions, and runs programs again."""
