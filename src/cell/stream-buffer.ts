import type { StreamName, StreamWriter } from './console-capture';

/** Collects written text and passes it on in few pieces, in order. */
export interface StreamBuffer {
  write: StreamWriter;
  /** Passes on what is held; call it before anything that must come after it. */
  flush(): void;
}

export interface StreamBufferOptions {
  /** How long text may be held. */
  readonly windowMs?: number | undefined;
  /** How much text is held at most, in characters. */
  readonly maxLength?: number | undefined;
}

/** Coalesces writes: pieces of one stream that come within a window are passed on together. */
export function createStreamBuffer(
  pass: StreamWriter,
  { windowMs = 20, maxLength = 65_536 }: StreamBufferOptions = {},
): StreamBuffer {
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
  return { write, flush };
}
