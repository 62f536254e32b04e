import { Console } from 'node:console';

export type StreamName = 'stdout' | 'stderr';

/** Takes a piece of text that a cell wrote. */
export type StreamWriter = (name: StreamName, text: string) => void;

/**
 * Sends everything that is written to stdout, stderr and the console to `write`, in order.
 * The console is replaced too, because the built-in console keeps printed values in memory for a debugger.
 */
export function captureConsole(write: StreamWriter): void {
  redirect(process.stdout, (text) => write('stdout', text));
  redirect(process.stderr, (text) => write('stderr', text));
  globalThis.console = new Console({ stdout: process.stdout, stderr: process.stderr });
}

type WriteCallback = (error?: Error | null) => void;

function redirect(stream: NodeJS.WriteStream, write: (text: string) => void): void {
  stream.write = (
    chunk: string | Uint8Array,
    encodingOrDone?: BufferEncoding | WriteCallback,
    done?: WriteCallback,
  ): boolean => {
    write(typeof chunk === 'string' ? chunk : Buffer.from(chunk).toString());
    const callback = typeof encodingOrDone === 'function' ? encodingOrDone : done;
    if (callback !== undefined) process.nextTick(callback);
    return true;
  };
}

/**
 * Joins the pieces of text that are written to one stream, in order, and gives them to `pass` after `windowMs`, or as soon as
 * they have `maxLength` characters.
 */
export function createStreamBuffer(
  pass: StreamWriter,
  { windowMs, maxLength }: { readonly windowMs: number; readonly maxLength: number },
) {
  let held = '';
  let heldName: StreamName = 'stdout';
  let timer: NodeJS.Timeout | undefined;
  const flush = (): void => {
    clearTimeout(timer);
    timer = undefined;
    if (held === '') return;
    const text = held;
    held = '';
    pass(heldName, text);
  };
  const write: StreamWriter = (name, text) => {
    if (name !== heldName) flush();
    heldName = name;
    held += text;
    if (held.length >= maxLength) flush();
    else timer ??= setTimeout(flush, windowMs);
  };
  return {
    write,
    /** Gives the held text to `pass`; call `flush` before output that must follow the text. */
    flush,
  };
}
