"""Sources: graphs, triples, recognised spans and Wikidata."""
