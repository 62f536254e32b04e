/** Names in the scope of every cell (src/cell/display.ts, kernel/executor/main.ts), for the checker. */
export const GLOBALS_DECLARATION = `
interface CellDisplayOptions {
  /** Names the display, so that updateDisplay can replace its content. */
  readonly displayId?: string;
  /** The value is a MIME bundle: { 'text/html': '<b>bold</b>' }. */
  readonly raw?: boolean;
}
interface CellComm {
  readonly id: string;
  readonly target: string;
  send(data: object, buffers?: readonly Uint8Array[]): void;
  close(data?: object): void;
  onMessage: (data: Record<string, unknown>, buffers: readonly Uint8Array[]) => void;
  onClose: (data: Record<string, unknown>) => void;
}
interface CellComms {
  /** Opens a channel to the front end's side of the target. */
  open(target: string, data?: object, metadata?: object): CellComm;
  /** Accepts channels that the front end opens. */
  register(target: string, opened: (comm: CellComm, data: Record<string, unknown>) => void): void;
}
/** Shows a value in the same form as a cell's result. */
declare function display(value: unknown, options?: CellDisplayOptions): Promise<void>;
/** Replaces the content of the displays of that name. */
declare function updateDisplay(displayId: string, value: unknown, options?: CellDisplayOptions): Promise<void>;
/** Clears the cell's output; with wait, when the next output arrives. */
declare function clearOutput(wait?: boolean): void;
/** Asks the user of the notebook for a line of text. */
declare function prompt(message?: string, options?: { readonly password?: boolean }): Promise<string>;
/** Channels to widgets. */
declare const comms: CellComms;
`;
