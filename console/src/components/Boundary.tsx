import { Component, type ReactNode } from "react";

interface Props {
  children: ReactNode;
  /** Where the reader is: a failure stays until they go elsewhere. */
  at: string;
}

interface State {
  failed: boolean;
  at: string;
}

/** Shows a sentence in the place of what failed to be drawn, so that the rest of the page can still be used. */
export class Boundary extends Component<Props, State> {
  override state: State = { failed: false, at: this.props.at };

  static getDerivedStateFromError(): Partial<State> {
    return { failed: true };
  }

  static getDerivedStateFromProps(props: Props, state: State): Partial<State> | null {
    return props.at === state.at ? null : { failed: false, at: props.at };
  }

  override render() {
    if (!this.state.failed) return this.props.children;
    return (
      <div className="empty" role="alert">
        <h2>This page could not be shown</h2>
        <p>The console failed to render the page. Your data is not affected.</p>
        <button type="button" className="button" onClick={() => window.location.reload()}>
          Reload
        </button>
      </div>
    );
  }
}
