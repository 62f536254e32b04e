/** A kernel's tensor, as far as it says whether two are the same buffer. */
interface Held {
  readonly dataId: object;
}

/** Kernels whose result may be a view of their input, which costs nothing. */
const VIEWS: ReadonlySet<string> = new Set(['Cast', 'ExpandDims', 'Identity', 'Reshape', 'Transpose']);

/** Whether a kernel gave its input's own buffer back. */
export function isView(name: string, input: Held | undefined, outputs: readonly Held[]): boolean {
  return VIEWS.has(name) && outputs.every(({ dataId }) => input?.dataId === dataId);
}
