# Imported first by what starts programs: signals that this process was started with ignored (in the
# background of a shell, under nohup) would be ignored by those programs, too, and a test that sends
# one would wait for ever. SPDX-License-Identifier: Apache-2.0
import signal

for number in (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP, signal.SIGTERM, signal.SIGUSR1,
               signal.SIGUSR2, signal.SIGALRM, signal.SIGTSTP):
    if signal.getsignal(number) == signal.SIG_IGN:
        signal.signal(number, signal.SIG_DFL)
