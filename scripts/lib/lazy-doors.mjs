/**
 * Makes a door (the index.js of a flat) load a file of its flat when one of the file's names is first read, and keep the value:
 * tsc's exports load every file of the flat at once, so that a rank or `shardlab --help` would load the whole library. A name
 * that a file assigns again later must not pass a door; `test/project/flats.test.ts` checks that none does. A namespace
 * (`export * as ink from './ink'`) is the file's own exports, loaded when the namespace is first read. Lines keep their numbers.
 * Applied to its own result, this function changes nothing.
 */
export function lazyDoor(text) {
  const paths = new Map([...text.matchAll(REQUIRED)].map(([, variable, path]) => [variable, path]));
  return text
    .replace(REQUIRED, '')
    .replace(MODULE, (line) => line + LAZY)
    .replace(NAMESPACE, 'lazy("$1", () => ({ $1: require("$2") }));')
    .replace(EXPORTED, (line, name, variable, imported) => {
      const path = paths.get(variable);
      if (path === undefined) return line;
      return `lazy("${name}", () => require("${path}")${imported === name ? '' : `, "${imported}"`});`;
    });
}

/** The line that begins each of tsc's modules. */
const MODULE = /^Object\.defineProperty\(exports, "__esModule", \{ value: true \}\);$/m;
/** Defines an export that loads its file when it is read, and keeps the value. */
const LAZY =
  ' const lazy = (name, load, own = name) => Object.defineProperty(exports, name, { enumerable: true, configurable: true, ' +
  'get() { const value = load()[own]; Object.defineProperty(exports, name, { value }); return value; } });';

/** A line in which tsc loads a file that is exported further; its line end stays. */
const REQUIRED = /^var (\w+) = require\("(\.[^"]+)"\);$/gm;
/** A line in which tsc exports a name of such a file. */
const EXPORTED =
  /^Object\.defineProperty\(exports, "(\w+)", \{ enumerable: true, get: function \(\) \{ return (\w+)\.(\w+); \} \}\);$/gm;
/** A line in which tsc exports all names of a file as a namespace. */
const NAMESPACE = /^exports\.(\w+) = __importStar\(require\("(\.[^"]+)"\)\);$/gm;
