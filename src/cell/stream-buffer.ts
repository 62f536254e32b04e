import type { StreamName, StreamWriter } from './console-capture';

/** Collects written text and passes it on in few pieces, in order. */
export interface StreamBuffer {
  write: StreamWriter;
  /** Passes on the held text; call it before output that must follow the text. */
  flush(): void;
}

/** How much text is held: for how long, and how many characters. */
export interface StreamLimits {
  readonly windowMs: number;
  readonly maxLength: number;
}

/** Coalesces writes: pieces of one stream within a time window are passed on together. */
export function createStreamBuffer(pass: StreamWriter, { windowMs, maxLength }: StreamLimits): StreamBuffer {
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
