"""Where objects lie: floating, single on the table, or clutter, settled in MuJoCo until at rest."""
