# cmake/picture.cmake: which room may look into which. The one place where that is written down:
# house.cmake links by it, check_includes.cmake reads the include lines by it.

set(rooms number bounds world trace c kernels probe model injectors experiments paper_repro cli)

set(number_sees       "")
set(bounds_sees       number)
set(world_sees        number)
set(trace_sees        number bounds)
set(c_sees            number bounds trace)
set(kernels_sees      number)
set(probe_sees        number bounds trace kernels)
set(model_sees        number bounds world trace kernels)
set(injectors_sees    number bounds model)
set(experiments_sees  number bounds world trace kernels probe model injectors)
set(paper_repro_sees  number bounds trace experiments)
set(cli_sees          number bounds world trace kernels probe model injectors experiments paper_repro)

# tests/ may look into every room. So that testing one room does not mean building all, a room's test
# program is linked with what the room sees, and with these:
set(number_tests_see  bounds)
set(trace_tests_see   model)
set(kernels_tests_see bounds)

# The rules that check_house.cmake holds, a test each: house.<rule>.
set(house_rules includes operations labels citations pages)
