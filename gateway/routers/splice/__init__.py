"""SpliceRouter: joins several topics, one after another, into one topic."""
