import { currentDisplay, replacingDisplay } from './display';
import { encodeBinary, type MimeBundle } from './mime';

/** tslab's display interface: one media type per call. Source: tslab/dist/public.d.ts */
export interface Display {
  javascript(text: string): void;
  html(text: string): void;
  markdown(text: string): void;
  latex(text: string): void;
  svg(text: string): void;
  png(bytes: Uint8Array): void;
  jpeg(bytes: Uint8Array): void;
  gif(bytes: Uint8Array): void;
  pdf(bytes: Uint8Array): void;
  text(text: string): void;
  raw(contentType: string, content: string | Uint8Array): void;
}

// Cells of shardlab's kernel import this module as 'tslab'. It has tslab's interface, and shows content in the process's sink.

/** Versions of tslab (the version whose interface this module has), of TypeScript (which checks cells), and of Node. */
export const versions: Readonly<Record<'tslab' | 'typescript' | 'node', string>> = {
  tslab: manifestOf('shardlab').peerDependencies?.tslab ?? '',
  typescript: manifestOf('typescript').version,
  node: process.version,
};

/** Shows content below the running cell. */
export const display: Display = displayOver((bundle) => currentDisplay()?.display(bundle));

/** Returns a display in which each content replaces the previous one. */
export function newDisplay(): Display {
  return displayOver(replacingDisplay());
}

interface Manifest {
  readonly version: string;
  readonly peerDependencies?: Readonly<Record<string, string>>;
}

function manifestOf(name: string): Manifest {
  return require(`${name}/package.json`) as Manifest;
}

function displayOver(show: (bundle: MimeBundle) => void): Display {
  const raw: Display['raw'] = (type, content) => show(encodeBinary({ [type]: content }));
  return {
    raw,
    javascript: (text) => raw('text/javascript', text),
    html: (text) => raw('text/html', text),
    markdown: (text) => raw('text/markdown', text),
    latex: (text) => raw('text/latex', text),
    svg: (text) => raw('image/svg+xml', text),
    png: (bytes) => raw('image/png', bytes),
    jpeg: (bytes) => raw('image/jpeg', bytes),
    gif: (bytes) => raw('image/gif', bytes),
    pdf: (bytes) => raw('application/pdf', bytes),
    text: (text) => raw('text/plain', text),
  };
}
