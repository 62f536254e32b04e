import { currentEngine } from '../engine';
import type { CollectiveOptions } from '../wire';

/**
 * Returns the options of an exchange of activations. The default of `module` is the module that runs. Activations of a unit
 * with 16-bit parameters are sent with 16 bits.
 */
export function exchangeOptions(module?: string): CollectiveOptions & { readonly module: string } {
  const { module: running = '', declared = 'float32' } = currentEngine()?.currentTag ?? {};
  return { cause: 'activation', module: module ?? running, wireDType: declared };
}
