/* SPDX-License-Identifier: Apache-2.0 */
/* worker.cpp: works under a lock until its input ends, and stops when the lock is lost.
 *
 *     c++ -std=c++17 worker.cpp -o worker $(pkg-config --cflags --libs holdfast)
 *     ./worker 'mongodb://a,b,c/app?replicaSet=rs0' < jobs
 *
 * Each byte of the input is a piece of work. Between pieces it waits for two things at once: the
 * next byte, and the descriptor that becomes readable when the lock is lost. Exits with 0 when the
 * work is done, else with the status that holdfast.h gives the error: 76 for a lost lock. */
#include <holdfast/holdfast.hpp>

#include <iostream>
#include <poll.h>
#include <unistd.h>

/* False at the end of the input; throws when the lock is lost. */
static bool has_work(const holdfast::lock &lock)
{
    pollfd fds[] = {{lock.fd(), POLLIN, 0}, {STDIN_FILENO, POLLIN, 0}};
    poll(fds, 2, -1);
    lock.check(); // is the last word: between two pieces of work, ask
    char piece;
    return read(STDIN_FILENO, &piece, 1) == 1;
}

static void work(holdfast::client &client)
{
    hf_lock_options options{};
    options.why = "working";
    holdfast::lock lock = client.acquire("worker", options);
    std::cout << "working with token " << lock.token() << std::endl;
    while (has_work(lock))
        std::cout << "." << std::flush;
    lock.release(); // else its scope's end does it, unheard
    std::cout << " done" << std::endl;
}

int main(int argc, char **argv)
try {
    if (argc != 2) {
        std::cerr << "usage: worker STORE\n";
        return 64;
    }
    holdfast::client client(argv[1]);
    work(client);
    return 0;
} catch (const holdfast::error &err) {
    std::cerr << "worker: " << err.what() << "\n";
    return hf_code_exit(err.code());
}
