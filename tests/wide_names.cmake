# With times and offsets of 64 bits beside a long of 32, the C library has other names for some functions.
# Whatever the tests put in the place of those is led there under the other names. (Libraries may use the
# plain ones, and go on to the C library.)
# SPDX-License-Identifier: Apache-2.0
set(wide_clock_gettime __clock_gettime64)
set(wide_fcntl __fcntl_time64)
set(wide_fstat __fstat64_time64)
set(wide_getrlimit getrlimit64)
set(wide_nanosleep __nanosleep64)
set(wide_open open64)
set(wide_pthread_cond_clockwait __pthread_cond_clockwait64)
set(wide_setrlimit setrlimit64)
set(wide_statfs statfs64)

function(wrap_wide target)
    get_property(options TARGET ${target} PROPERTY LINK_OPTIONS)
    foreach(name ${ARGN})
        if(LINKER:--wrap=${name} IN_LIST options)
            set(wide ${wide_${name}})
            list(TRANSFORM options REPLACE "^LINKER:--wrap=${name}$" "LINKER:--wrap=${wide}")
            target_compile_definitions(${target}
                PRIVATE __wrap_${name}=__wrap_${wide} __real_${name}=__real_${wide})
        endif()
    endforeach()
    set_property(TARGET ${target} PROPERTY LINK_OPTIONS ${options})
endfunction()

get_property(targets DIRECTORY PROPERTY BUILDSYSTEM_TARGETS)
foreach(target ${targets})
    wrap_wide(${target} clock_gettime fcntl fstat getrlimit nanosleep open pthread_cond_clockwait setrlimit statfs)
endforeach()
