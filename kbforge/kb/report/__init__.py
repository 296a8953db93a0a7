"""The report: content, uncertainty and history of a knowledge base as one page of HTML."""
