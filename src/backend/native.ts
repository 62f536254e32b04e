import { createRequire } from 'node:module';

/** The koffi module: calls into native libraries. */
export type Koffi = typeof import('koffi');

/** Loads koffi if it works here; otherwise says why not. */
export function loadKoffi(): { readonly koffi: Koffi } | { readonly koffi: null; readonly reason: string } {
  try {
    // The type of a module loaded at run time is its own declaration.
    return { koffi: createRequire(__filename)('koffi') as Koffi };
  } catch (error) {
    const message = error instanceof Error ? error.message.split('\n')[0] : String(error);
    return { koffi: null, reason: `koffi does not load (${message})` };
  }
}
