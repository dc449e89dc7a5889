"""OUT/report.html: what an output holds, drawn and counted, in one file that needs no network."""
