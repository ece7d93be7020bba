import { type ComponentType, useEffect, useState } from "react";
import { Loading } from "./basics";

/**
 * A page whose script loads when the page is first shown.
 *
 * In place of React.lazy: once Suspense has shown a fallback, React holds the content back for 300 ms.
 */
export function page<Props extends object>(load: () => Promise<{ default: ComponentType<Props> }>) {
  let loaded: ComponentType<Props> | undefined;
  return function Page(props: Props) {
    const [Content, setContent] = useState<ComponentType<Props> | undefined>(() => loaded);
    const [error, setError] = useState<unknown>();
    useEffect(() => {
      if (loaded) return;
      load().then((module) => {
        loaded = module.default;
        setContent(() => module.default);
      }, setError);
    }, []);
    if (error) throw error;
    return Content ? <Content {...props} /> : <Loading what="the page" />;
  };
}
