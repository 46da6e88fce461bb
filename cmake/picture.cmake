# cmake/picture.cmake: which room may look into which. The one place where that is written down:
# house.cmake links by it, check_house.cmake reads the include lines by it.

set(rooms bounds world trace kernels model injectors experiments paper_repro cli)

set(bounds_sees       "")
set(world_sees        bounds)
set(trace_sees        bounds)
set(kernels_sees      bounds)
set(model_sees        bounds world trace kernels)
set(injectors_sees    bounds model)
set(experiments_sees  bounds world trace kernels model injectors)
set(paper_repro_sees  bounds experiments)
set(cli_sees          bounds world trace kernels model injectors experiments paper_repro)

# tests/ may look into every room. So that testing one room does not mean building all, a room's test
# program is linked with what the room sees, and with these:
set(trace_tests_see   model)
