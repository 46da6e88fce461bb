# cmake/python.cmake: the tests of python/ and of its examples, on this build's libplumb.so. They are skipped, with a
# reason, where numpy or pip is not there; a library under sanitizers cannot be loaded by a Python without.
if(CMAKE_CXX_FLAGS MATCHES "-fsanitize")
  return()
endif()
set(python_tests_run PYTHONDONTWRITEBYTECODE=1 PLUMB_LIBRARY=$<TARGET_FILE:plumb_c>
  PYTHONPATH=${PROJECT_SOURCE_DIR}/python)
function(python_test name)
  add_test(NAME python.${name} COMMAND ${ARGN})
  set_tests_properties(python.${name} PROPERTIES
    LABELS python SKIP_RETURN_CODE 77 ENVIRONMENT "${python_tests_run}")
endfunction()
python_test(package ${PLUMB_PYTHON} ${PROJECT_SOURCE_DIR}/tests/python/package_test.py)
python_test(examples ${PLUMB_PYTHON} ${PROJECT_SOURCE_DIR}/tests/python/examples_test.py)
python_test(writer ${PLUMB_PYTHON} ${PROJECT_SOURCE_DIR}/tests/python/trace_writer_test.py)
python_test(foreign_trace ${PLUMB_PYTHON} ${PROJECT_SOURCE_DIR}/tests/python/foreign_trace_test.py
  $<TARGET_FILE:plumb> ${PROJECT_SOURCE_DIR})
python_test(install bash ${PROJECT_SOURCE_DIR}/tests/python/install.sh
  ${PLUMB_PYTHON} ${PROJECT_SOURCE_DIR} $<TARGET_FILE:plumb_c> ${PROJECT_BINARY_DIR}/python)
# With the PyTorch that `./run test torch` installs (the JAX of `./run test jax`), or else with what is there.
function(installed_test package name)
  python_test(${name} bash ${PROJECT_SOURCE_DIR}/tests/python/with_either.sh
    ${PROJECT_BINARY_DIR}/${package}/bin/python ${PLUMB_PYTHON} ${ARGN})
  set_tests_properties(python.${name} PROPERTIES LABELS "python;${package}" TIMEOUT 900)
endfunction()
function(torch_test name)
  installed_test(torch ${name} ${ARGN})
endfunction()
torch_test(capture ${PROJECT_SOURCE_DIR}/tests/python/capture_test.py)
torch_test(twins ${PROJECT_SOURCE_DIR}/tests/python/twins_test.py)
torch_test(context ${PROJECT_SOURCE_DIR}/tests/python/context_test.py)
torch_test(experts ${PROJECT_SOURCE_DIR}/tests/python/experts_test.py)
torch_test(scripts ${PROJECT_SOURCE_DIR}/tests/python/scripts_test.py)
torch_test(rewriting ${PROJECT_SOURCE_DIR}/tests/python/rewriting_test.py)
torch_test(checkpoint ${PROJECT_SOURCE_DIR}/tests/python/checkpoint_test.py $<TARGET_FILE:plumb>)
torch_test(own_functions ${PROJECT_SOURCE_DIR}/tests/python/own_functions_test.py)
torch_test(messages ${PROJECT_SOURCE_DIR}/tests/python/messages_test.py $<TARGET_FILE:plumb>)
torch_test(generator ${PROJECT_SOURCE_DIR}/tests/python/generator_test.py $<TARGET_FILE:plumb>)
torch_test(odd_steps ${PROJECT_SOURCE_DIR}/tests/python/odd_steps_test.py)
torch_test(positions ${PROJECT_SOURCE_DIR}/tests/python/positions_test.py)
torch_test(sketch ${PROJECT_SOURCE_DIR}/tests/python/sketch_test.py $<TARGET_FILE:plumb>)
torch_test(distributed_optimizer ${PROJECT_SOURCE_DIR}/tests/python/distributed_optimizer_test.py)
torch_test(dither ${PROJECT_SOURCE_DIR}/tests/python/dither_test.py)
torch_test(replayed ${PROJECT_SOURCE_DIR}/tests/python/replayed_test.py $<TARGET_FILE:plumb>)
torch_test(perturbed ${PROJECT_SOURCE_DIR}/tests/python/perturbed_test.py $<TARGET_FILE:plumb>)
foreach(example tensor_parallel by_hand data_parallel fully_sharded sharded_optimizer context_parallel experts pipeline
        interleaved hugging_face megatron_core megatron_experts megatron_context megatron_data
        megatron_pipeline)
  torch_test(torch_${example} ${PROJECT_SOURCE_DIR}/examples/torch/run.py $<TARGET_FILE:plumb>
    ${PROJECT_BINARY_DIR}/torch_examples --only ${example} --formats bf16)
endforeach()
torch_test(torch_rewriting ${PROJECT_SOURCE_DIR}/examples/torch/run.py $<TARGET_FILE:plumb>
  ${PROJECT_BINARY_DIR}/torch_rewriting --only by_hand --formats bf16 --rewrite)
torch_test(torch_dither ${PROJECT_SOURCE_DIR}/examples/torch/run.py $<TARGET_FILE:plumb>
  ${PROJECT_BINARY_DIR}/torch_dither --only by_hand --formats bf16 --dither)
torch_test(torch_types ${PROJECT_SOURCE_DIR}/examples/torch/types/check.py)
torch_test(megatron_gradients ${PROJECT_SOURCE_DIR}/examples/megatron_gradient_test/test_gradients.py
  $<TARGET_FILE:plumb> ${PROJECT_BINARY_DIR}/megatron_gradients --junit ${PROJECT_BINARY_DIR}/megatron_gradients.xml)
torch_test(megatron_gradients_mistake ${PROJECT_SOURCE_DIR}/examples/megatron_gradient_test/test_gradients.py
  $<TARGET_FILE:plumb> ${PROJECT_BINARY_DIR}/megatron_gradients_mistake --mistake norm)
set_tests_properties(python.megatron_gradients_mistake PROPERTIES
  PASS_REGULAR_EXPRESSION "FAIL, blamed: decoder.final_layernorm.weight/grad by structure")
installed_test(jax jax ${PROJECT_SOURCE_DIR}/examples/jax/run.py $<TARGET_FILE:plumb>
  ${PROJECT_BINARY_DIR}/jax_examples --formats bf16)
file(GLOB examples CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/examples/kernel_in_python/test_*.py)
foreach(example IN LISTS examples)
  get_filename_component(name ${example} NAME_WE)
  python_test(${name} ${PLUMB_PYTHON} ${example})
endforeach()
# The same by unittest, as a runner finds them.
python_test(examples_by_unittest ${PLUMB_PYTHON} -m unittest discover -s ${PROJECT_SOURCE_DIR}/examples/kernel_in_python)
set_tests_properties(python.examples_by_unittest PROPERTIES SKIP_REGULAR_EXPRESSION "skipped: numpy is not installed")
