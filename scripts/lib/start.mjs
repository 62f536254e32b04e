import { isAbsolute, join, resolve } from 'node:path';
import { parseArgs } from 'node:util';
import { fromBuild } from './from-build.mjs';
import { root } from './places.mjs';
import { setUp } from './setup.mjs';
import { runMain, UsageError } from './step.mjs';

const HELP = `npm start [-- options]            set up what is missing, then open the quickstart in JupyterLab
  --ip ADDRESS --port N           address and port of JupyterLab (default: localhost, 8888 or the next free port)
  --no-browser                    only print the address
  --execute [NOTEBOOK…]           run the quickstart (or these notebooks) without a browser
  --output DIR                    folder for the notebook and HTML of --execute (default: build/executed)
  -- OPTION…                      further options for JupyterLab
`;

const QUICKSTART = join('notebooks', '00-quickstart.ipynb');

/** The main function of `npm start`. */
export function main() {
  return runMain(async () => {
    const options = readOptions(process.argv.slice(2));
    if (options.help) {
      process.stdout.write(HELP);
      return 0;
    }
    const setup = await setUp('run');
    if (options.execute) {
      const output = resolve(options.output ?? defaultOutput(setup.state));
      return fromBuild('cli/lab/execute').executeNotebooks(setup, options.notebooks, { output });
    }
    const { hasDisplay, runJupyterLab } = fromBuild('cli/lab/jupyter-lab');
    return runJupyterLab(setup, {
      ...options,
      browser: options.browser && hasDisplay(process.env),
      folder: root,
      notebook: QUICKSTART,
      log: join(setup.state, setup.state === root ? 'build' : '', 'jupyter.log'),
      command: 'npm start --',
      say: (text) => process.stdout.write(text),
    });
  });
}

/** Reads the arguments of `npm start`. Throws a UsageError for a wrong argument. */
export function readOptions(argv) {
  const at = argv.indexOf('--');
  const [own, rest] = at < 0 ? [argv, []] : [argv.slice(0, at), argv.slice(at + 1)];
  let parsed;
  try {
    parsed = parseArgs({
      args: own,
      allowPositionals: true,
      options: {
        help: { type: 'boolean', short: 'h' },
        execute: { type: 'boolean' },
        output: { type: 'string' },
        ip: { type: 'string' },
        port: { type: 'string' },
        'no-browser': { type: 'boolean' },
      },
    });
  } catch (error) {
    throw new UsageError(error.message, HELP.trimEnd());
  }
  const { values, positionals } = parsed;
  if (positionals.length > 0 && !values.execute) {
    throw new UsageError(`${positionals.join(' ')}: only --execute takes notebooks.`, HELP.trimEnd());
  }
  const notebooks = positionals.length > 0 ? positionals : [QUICKSTART];
  return {
    help: values.help,
    execute: values.execute,
    output: values.output,
    notebooks: notebooks.map((path) => (isAbsolute(path) ? path : resolve(root, path))),
    ip: values.ip,
    port: readPort(values.port),
    browser: !values['no-browser'],
    rest,
  };
}

function readPort(text) {
  if (text === undefined) return undefined;
  const port = Number(text);
  if (!Number.isInteger(port) || port < 1 || port > 65535) {
    throw new UsageError(
      `--port ${text} is not a port: a port is an integer from 1 to 65535.`,
      HELP.trimEnd(),
    );
  }
  return port;
}

function defaultOutput(state) {
  return state === root ? join(root, 'build', 'executed') : join(state, 'executed');
}
