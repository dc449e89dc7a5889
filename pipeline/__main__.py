from pipeline.cli import main

main(complete_var="_GRASP_CLOUDS_COMPLETE")
