"""Sources: graphs, triples, recognised spans and Wikidata in, fragments out."""
