import type { Duplex } from 'node:stream';

/** File descriptor of the debugger's link in the executor, whose other end the front has. */
export const DEBUG_FD = 5;

/** Gives `receive` each value that the other end sends; returns the function that sends values. Values are JSON, one in a line. */
export function openDebugLink<Sent, Received>(
  stream: Duplex,
  receive: (value: Received) => void,
): (value: Sent) => void {
  let rest = '';
  stream.setEncoding('utf8').on('data', (text: string) => {
    const lines = `${rest}${text}`.split('\n');
    rest = lines.pop() ?? '';
    // The other end is this package's own code, so the values have this type.
    for (const line of lines) receive(JSON.parse(line) as Received);
  });
  // The end of the process is reported elsewhere.
  stream.on('error', () => {});
  return (value) => void stream.write(`${JSON.stringify(value)}\n`);
}
