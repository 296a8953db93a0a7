"""The report: what a knowledge base holds, doubts and went through, as one page of HTML."""
