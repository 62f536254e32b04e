import type { MimeBundle } from './mime';

export interface DisplayOptions {
  /** Names the display so that `update` can replace its content later. */
  readonly displayId?: string | undefined;
  readonly metadata?: MimeBundle | undefined;
}

/** Where a process shows rich output: the kernel's executor, a rank's courier, or a stock tslab kernel. */
export interface DisplaySink {
  display(bundle: MimeBundle, options?: DisplayOptions): void;
  /** Replaces the content of every display of that name, in whichever cell it is. */
  update(displayId: string, bundle: MimeBundle): void;
  /** Empties the running cell's output; with `wait`, only when the next output comes. */
  clear(wait?: boolean): void;
}
