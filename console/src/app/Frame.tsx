import { useQueryClient } from "@tanstack/react-query";
import { type ReactNode, useCallback, useEffect, useRef, useState } from "react";
import { Link, useLocation } from "wouter";
import { forgetPerson, type Me, signOut } from "../api/session";
import { Boundary } from "../components/Boundary";
import { Icon } from "../components/icons";
import { useToast } from "../components/Toasts";
import { safeUrl } from "../lib/links";
import { CommandPalette } from "./CommandPalette";
import { NewBuild, OfflineBanner } from "./Connectivity";
import type { OpenOrganisation } from "./organisation";
import { PAGES, pageAt } from "./pages";
import { switchTheme } from "./theme";
import { useScrollMemory } from "./useScrollMemory";

export function Frame({
  me,
  organisation,
  children,
}: {
  me: Me;
  organisation: OpenOrganisation;
  children: ReactNode;
}) {
  const [location] = useLocation();
  const content = useRef<HTMLElement>(null);
  const shown = useRef(location);
  useEffect(() => {
    if (shown.current === location) return;
    shown.current = location;
    // Of another page the keyboard and the screen reader begin at its top, unless a field of it has the focus already.
    if (!content.current?.contains(document.activeElement)) content.current?.focus();
  }, [location]);
  useScrollMemory(content);
  const [palette, setPalette] = useState(false);
  const close = useCallback(() => setPalette(false), []);
  useEffect(() => {
    const onKey = (event: KeyboardEvent) => {
      if ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === "k") {
        event.preventDefault();
        setPalette(true);
      }
    };
    window.addEventListener("keydown", onKey);
    return () => window.removeEventListener("keydown", onKey);
  }, []);
  return (
    <div className="frame">
      <a className="sr" href="#content">
        Skip to the content
      </a>
      <header className="sidebar">
        <div className="brand">
          <img src="/console/icon.svg" alt="" />
          Tieline
        </div>
        <Switcher me={me} organisation={organisation} />
        <button type="button" className="search-button" onClick={() => setPalette(true)}>
          <Icon name="search" />
          <span className="grow">Find</span>
          <kbd>Ctrl K</kbd>
        </button>
        <Navigation organisation={organisation} />
        <Account me={me} organisation={organisation} />
      </header>
      <main className="main" id="content" ref={content} tabIndex={-1}>
        <div className="page">
          <OfflineBanner />
          <NewBuild />
          <Boundary at={location}>{children}</Boundary>
        </div>
      </main>
      {palette && <CommandPalette organisation={organisation} onClose={close} />}
    </div>
  );
}

function Navigation({ organisation }: { organisation: OpenOrganisation }) {
  const [location] = useLocation();
  const groups = [...new Set(PAGES.map((each) => each.group))];
  const pages = useRef<HTMLElement>(null);
  // biome-ignore lint/correctness/useExhaustiveDependencies: another location is another current page
  useEffect(() => {
    // In a small window the pages are one line, which scrolls.
    pages.current?.querySelector("[aria-current]")?.scrollIntoView({ block: "nearest", inline: "center" });
  }, [location]);
  return (
    <nav aria-label="Pages" ref={pages}>
      {groups.map((group) => (
        <div key={group}>
          <div className="nav-title">{group}</div>
          {PAGES.filter((each) => each.group === group).map((each) => {
            const target = `/${organisation.namespace}/${each.path}`;
            const current = pageAt(location) === each.path;
            return (
              <Link key={each.path} href={target} className="nav" aria-current={current ? "page" : undefined}>
                <Icon name={each.icon} />
                {each.name}
              </Link>
            );
          })}
        </div>
      ))}
    </nav>
  );
}

function Switcher({ me, organisation }: { me: Me; organisation: OpenOrganisation }) {
  const [, navigate] = useLocation();
  return (
    <label>
      <span className="sr">Organisation</span>
      <select
        className="input"
        style={{ width: "100%" }}
        value={organisation.namespace}
        onChange={(event) => navigate(`/${event.target.value}/overview`)}
      >
        {me.organisations.map((each) => (
          <option key={each.id} value={each.namespace}>
            {each.name || each.namespace}
          </option>
        ))}
      </select>
    </label>
  );
}

function Account({ me, organisation }: { me: Me; organisation: OpenOrganisation }) {
  const client = useQueryClient();
  const say = useToast();
  const leave = async () => {
    try {
      const url = safeUrl(await signOut());
      if (url) {
        window.location.assign(url);
        return;
      }
      forgetPerson(client);
    } catch (error) {
      say(error instanceof Error ? error.message : "You are still signed in.", "bad");
    }
  };
  return (
    <div className="sidebar-foot">
      <button type="button" className="button quiet" style={{ justifyContent: "flex-start" }} onClick={switchTheme}>
        <Icon name="theme" /> <span className="label">Light or dark</span>
      </button>
      <button type="button" className="button quiet" style={{ justifyContent: "flex-start" }} onClick={leave}>
        <Icon name="out" /> <span className="label">Sign out</span>
      </button>
      <div className="small dimmer cut" style={{ padding: "4px 10px" }} title={me.name}>
        {me.name} · {organisation.role}
      </div>
    </div>
  );
}
