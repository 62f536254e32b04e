import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { compileFunction } from 'node:vm';

interface Problem {
  readonly msg: string;
}

/** The part of plotly.js that tests use. */
interface Plotly {
  readonly version: string;
  validate(data: unknown, layout: unknown): readonly Problem[] | undefined;
}

/** What plotly reads from a browser while it loads; nothing is drawn, so the functions do nothing. */
class Node {
  readonly style = { setProperty: () => undefined };
  readonly childNodes = [];
  readonly sheet = { insertRule: () => 0, cssRules: [] };
  readonly appendChild = (child: unknown): unknown => child;
  readonly setAttribute = (): void => undefined;
  readonly addEventListener = (): void => undefined;
  readonly getContext = (): null => null;
  readonly querySelector = (): null => null;
}

class StyleDeclaration {
  setProperty(): void {}
}

class Parser {
  parseFromString(): unknown {
    return { documentElement: new Node(), querySelector: () => new Node() };
  }
}

/** Loads plotly's basic bundle (scatter and bar) with a stand-in for the browser: 0.1 s, no DOM library. */
export function loadPlotly(): Plotly {
  const create = (): Node => new Node();
  const root = Object.assign(new Node(), { ownerDocument: {} });
  const document = {
    createElement: create,
    createElementNS: create,
    createTextNode: create,
    documentElement: root,
    head: create(),
    body: create(),
    getElementById: () => null,
    querySelector: () => null,
    querySelectorAll: () => [],
    addEventListener: () => undefined,
  };
  const window: Record<string, unknown> = {
    document,
    navigator: { userAgent: 'node' },
    addEventListener: () => undefined,
    matchMedia: () => ({ matches: false }),
    getComputedStyle: () => ({}),
    Element: Node,
    HTMLElement: Node,
    CSSStyleDeclaration: StyleDeclaration,
    DOMParser: Parser,
    URL,
    Blob,
    setTimeout,
    clearTimeout,
  };
  window.self = window;
  window.window = window;
  root.ownerDocument = Object.assign(document, { defaultView: window });
  const path = createRequire(__filename).resolve('plotly.js/dist/plotly-basic.js');
  const globals = [
    'window',
    'self',
    'document',
    'navigator',
    'getComputedStyle',
    'DOMParser',
    'HTMLElement',
    'Element',
  ];
  const load = compileFunction(readFileSync(path, 'utf8'), ['module', 'exports', ...globals]);
  const holder = { exports: {} };
  load.call(
    window,
    holder,
    holder.exports,
    ...globals.map((name) => (name === 'self' ? window : window[name])),
  );
  return holder.exports as Plotly; // the bundle's exports
}

/** Faults that plotly's own schema finds in a figure; empty if it is valid. */
export function problemsOf(
  plotly: Plotly,
  figure: { readonly data: unknown; readonly layout: unknown },
): string[] {
  // Plotly changes its input; a copy through JSON, as in a notebook.
  const { data, layout } = JSON.parse(JSON.stringify({ data: figure.data, layout: figure.layout })) as {
    data: unknown;
    layout: unknown;
  };
  return (plotly.validate(data, layout) ?? []).map(({ msg }) => msg);
}
