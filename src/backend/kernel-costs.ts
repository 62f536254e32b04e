import type { DType, HalfDType } from '../core/dtypes';
import type { Seconds } from '../core/units';

/** A tensor, as far as a kernel's cost depends on it. */
export interface KernelTensor {
  readonly shape: readonly number[];
  readonly dtype: DType;
  /** The type in which a device would hold its values; undefined: `dtype`. */
  readonly declared: HalfDType | undefined;
}

/** One run of a kernel on the main thread; kernels that it calls are not reported. */
export interface KernelCall {
  /**
   * The kernel's registered name in tfjs or in this library's engine, or the name of the engine's in-place update:
   * 'adamW', 'addInto'.
   */
  readonly name: string;
  readonly inputs: readonly KernelTensor[];
  readonly outputs: readonly KernelTensor[];
  readonly attrs: Readonly<Record<string, unknown>>;
  /** The type in which a device would compute: its unit's type; undefined: float32. */
  readonly declared: HalfDType | undefined;
  /** Full name of the module in whose forward or backward it runs; '' outside of all modules. */
  readonly module: string;
  /** Where it runs; host arrays are updated on the host. */
  readonly place: 'device' | 'host';
}

/** Gives the time of a kernel. */
export type KernelCosts = (call: KernelCall) => Seconds;

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
