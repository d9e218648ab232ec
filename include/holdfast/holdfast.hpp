/* SPDX-License-Identifier: Apache-2.0 */
/* holdfast.hpp: holdfast.h for C++17, in this header alone: handles with ownership, and errors that
 * are thrown.
 *
 *     holdfast::client client("mongodb://a,b,c/app?replicaSet=rs0");
 *     holdfast::lock lock = client.acquire("nightly-report");
 *     write_report(lock.token());
 *     lock.release();
 *
 * A lock that goes out of scope, also by an exception, is released in the background. holdfast.h
 * describes each call and its errors, at the function of the same name. It also has what is missing
 * here (elections, listings, documents); get() gives the handle for it. A lock that was moved from
 * is empty: it may only be assigned to, destroyed, or asked with get() and is_held(). */
#ifndef HOLDFAST_HPP
#define HOLDFAST_HPP

#include <chrono>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include <holdfast/holdfast.h>

namespace holdfast
{

/* An hf_error that is thrown. */
class error : public std::runtime_error
{
  public:
    explicit error(const hf_error &what) : std::runtime_error(what.text), error_(what)
    {
    }

    hf_code code() const noexcept
    {
        return error_.code;
    }

    bool is_retryable() const noexcept
    {
        return error_.retryable;
    }

    const hf_error &get() const noexcept
    {
        return error_;
    }

  private:
    hf_error error_;
};

/* Not for users. */
namespace detail
{

template <auto close> struct closer {
    template <typename T> void operator()(T *handle) const noexcept
    {
        close(handle);
    }
};

template <typename T, auto close> using owned = std::unique_ptr<T, closer<close>>;

/* Calls the function with an hf_error as the last argument, and throws the error. */
template <typename Function, typename... Arguments>
void call(Function *function, Arguments... arguments)
{
    hf_error err{};
    if (function(arguments..., &err) != HF_OK)
        throw error(err);
}

} // namespace detail

/* Ends waits, from another thread or a signal handler: hf_lock_options.cancel is its get(). */
class cancel
{
  public:
    cancel()
    {
        hf_cancel *handle = nullptr;
        detail::call(hf_cancel_new, &handle);
        handle_.reset(handle);
    }

    void fire() noexcept
    {
        hf_cancel_fire(get());
    }

    hf_cancel *get() const noexcept
    {
        return handle_.get();
    }

  private:
    detail::owned<hf_cancel, hf_cancel_free> handle_;
};

/* A lock that was acquired. */
class lock
{
  public:
    /* Takes ownership of the handle. */
    explicit lock(hf_lock *handle) noexcept : handle_(handle)
    {
    }

    bool is_held() const noexcept
    {
        return handle_ && hf_lock_check(get(), nullptr, nullptr) == HF_OK;
    }

    /* What is left of the lease; throws HF_LOST. */
    std::chrono::milliseconds check() const
    {
        int64_t left_ms = 0;
        detail::call(hf_lock_check, get(), &left_ms);
        return std::chrono::milliseconds(left_ms);
    }

    /* Waits for the acknowledgement. The token and the name stay available. */
    void release()
    {
        detail::call(hf_lock_release, get());
    }

    void feed()
    {
        detail::call(hf_lock_feed, get());
    }

    void downgrade()
    {
        detail::call(hf_lock_downgrade, get());
    }

    /* false: others share it, or wait. */
    bool try_upgrade()
    {
        hf_error err{};
        hf_code code = hf_lock_upgrade(get(), &err);
        if (code != HF_OK && code != HF_HELD)
            throw error(err);
        return code == HF_OK;
    }

    /* How the holder before this one left. Its strings live as long as this lock. */
    hf_last previous() const
    {
        hf_last last{};
        detail::call(hf_lock_previous, get(), &last);
        return last;
    }

    void set_exit_status(int exit_status) noexcept
    {
        hf_lock_set_exit_status(get(), exit_status);
    }

    bool has_run() const noexcept
    {
        return hf_lock_has_run(get());
    }

    /* Becomes readable when the lock is lost. Do not read or close it. */
    int fd() const noexcept
    {
        return hf_lock_fd(get());
    }

    int64_t token() const noexcept
    {
        return hf_lock_token(get());
    }

    hf_mode mode() const noexcept
    {
        return hf_lock_mode(get());
    }

    std::string name() const
    {
        return hf_lock_name(get());
    }

    hf_lock *get() const noexcept
    {
        return handle_.get();
    }

  private:
    detail::owned<hf_lock, hf_lock_close> handle_;
};

/* A store that was opened. Its locks may be destroyed after it, but not used. */
class client
{
  public:
    explicit client(const std::string &uri, const hf_options &options = {})
    {
        hf_client *handle = nullptr;
        detail::call(hf_open, uri.c_str(), &options, &handle);
        handle_.reset(handle);
    }

    /* Waits in line; throws if the lock is not granted. */
    lock acquire(const std::string &name, const hf_lock_options &options = {})
    {
        hf_lock *handle = nullptr;
        detail::call(hf_lock_acquire, get(), name.c_str(), &options, &handle);
        return lock(handle);
    }

    /* Nothing if another holds the lock now; ignores wait_ms. */
    std::optional<lock> try_acquire(const std::string &name, hf_lock_options options = {})
    {
        options.wait_ms = HF_TRY;
        hf_error err{};
        hf_lock *handle = nullptr;
        hf_code code = hf_lock_acquire(get(), name.c_str(), &options, &handle, &err);
        if (code == HF_HELD)
            return std::nullopt;
        if (code != HF_OK)
            throw error(err);
        return lock(handle);
    }

    /* All of them, in the order of the names, or an error. */
    std::vector<lock> acquire_all(const std::vector<std::string> &names,
                                  const hf_lock_options &options = {})
    {
        std::vector<const char *> texts;
        for (const std::string &name : names)
            texts.push_back(name.c_str());
        std::vector<hf_lock *> handles(names.size());
        std::vector<lock> locks;
        locks.reserve(names.size());
        detail::call(hf_lock_acquire_all, get(), texts.data(), texts.size(), &options,
                     handles.data());
        for (hf_lock *handle : handles)
            locks.emplace_back(handle);
        return locks;
    }

    hf_client *get() const noexcept
    {
        return handle_.get();
    }

  private:
    detail::owned<hf_client, hf_close> handle_;
};

} // namespace holdfast

#endif
