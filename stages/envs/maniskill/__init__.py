"""ManiSkill: the DexGrasp environment, its agents, rollouts, and the renderer."""
