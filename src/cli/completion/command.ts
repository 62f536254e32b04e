import { Argument, Command } from 'commander';
import type { Io, Perform } from '../io';
import { type Completed, SHELLS, type Shell } from './scripts';

/** A command in the list of commands, as far as its completion needs it. */
interface Listed {
  readonly name: string;
  readonly description: string;
  load(): Promise<(command: Command, perform: Perform, io: Io) => void>;
}

/** `shardlab completion`: prints the script with which a shell completes the command. */
export function declareCompletion(
  command: Command,
  perform: Perform,
  { io, commands }: { readonly io: Io; readonly commands: readonly Listed[] },
): void {
  const names = Object.keys(SHELLS);
  command.addArgument(new Argument('<shell>', 'the shell').choices(names)).addHelpText(
    'after',
    `
  bash: eval "$(shardlab completion bash)", in ~/.bashrc
  zsh:  eval "$(shardlab completion zsh)", in ~/.zshrc after compinit
  fish: shardlab completion fish > ~/.config/fish/completions/shardlab.fish`,
  );
  perform(command, async ([shell], _, output) => {
    // Commander has checked the shell's name.
    const script = SHELLS[shell as Shell](await completedCommands(commands, io));
    output.answer({ script }, () => script);
    return 0;
  });
}

/** Returns each command with its options, and each subcommand such as `bench gpt`. */
async function completedCommands(commands: readonly Listed[], io: Io): Promise<readonly Completed[]> {
  const perform: Perform = (command) =>
    void command.option('--json', 'writes one JSON document to stdout, everything else to stderr');
  const all: Completed[] = [];
  for (const { name, description, load } of commands) {
    const command = new Command(name).description(description);
    (await load())(command, perform, io);
    all.push(completed(command, []));
    for (const child of command.commands) all.push(completed(child, [name]));
  }
  return all;
}

function completed(command: Command, above: readonly string[]): Completed {
  return {
    words: [...above, command.name()],
    description: command.description(),
    options: command.options.flatMap(({ long, description }) =>
      typeof long === 'string' ? [{ name: long, description }] : [],
    ),
    arguments: command.registeredArguments.flatMap(({ argChoices }) => argChoices ?? []),
    subcommands: command.commands.map((child) => child.name()),
  };
}
